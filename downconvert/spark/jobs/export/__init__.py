"""Exports of records to Parquet files and tables."""
