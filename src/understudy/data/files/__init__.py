"""Files as streams of Arrow batches: CSV, Parquet and folders of parts."""
