# An image that runs as a user without rights, on a read-only root, without a network:
#
#   docker build -t understudy .
#   docker run --rm --read-only --tmpfs /tmp --network none --cap-drop ALL --user "$(id -u):$(id -g)" -v "$PWD:/work" \
#     understudy synth table.csv --schema schema.yaml --unit add-remove --epsilon 1 --out synthetic.csv
#
# The kernels are compiled while the image is built. They are for any processor of this kind ("generic"), as the image may be used on another machine than the one that
# builds it; without NUMBA_CPU_NAME they are for the processor of the builder, faster, and compiled in memory wherever that differs.

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/understudy && /opt/understudy/bin/pip install --no-cache-dir .
ENV NUMBA_CACHE_DIR=/opt/understudy/kernels NUMBA_CPU_NAME=generic
RUN /opt/understudy/bin/understudy warm --quiet

FROM python:3.12-slim
COPY --from=build /opt/understudy /opt/understudy
ENV PATH=/opt/understudy/bin:$PATH \
    HOME=/nonexistent \
    NUMBA_CACHE_DIR=/opt/understudy/kernels \
    NUMBA_CPU_NAME=generic \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
USER 10001:10001
ENTRYPOINT ["understudy"]
CMD ["--help"]
