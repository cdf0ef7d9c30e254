"""Services that are started once for all integration tests; tests skip with the reason where one is absent."""

from __future__ import annotations

import os
import warnings

import pytest
from services import missing_postgres, missing_spark, postgres_server


def pytest_collection_modifyitems(items):
    """PySpark leaves sockets of its results to the garbage collector; that warning is not ours to fix."""
    for item in items:
        if "spark" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def postgres():
    reason = missing_postgres()
    if reason:
        pytest.skip(reason)
    with postgres_server() as server:
        before = os.environ.get("PGPASSFILE")
        os.environ["PGPASSFILE"] = str(server.passfile)
        yield server
        if before is None:
            del os.environ["PGPASSFILE"]
        else:
            os.environ["PGPASSFILE"] = before


@pytest.fixture(scope="session")
def spark():
    """The address of a Spark of two local threads; one session serves all tests."""
    reason = missing_spark()
    if reason:
        pytest.skip(reason)
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .config("spark.log.level", "OFF")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield "local[2]"
    session.stop()
