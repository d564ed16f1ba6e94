"""Run the cells of a study: in this process, in several, or on a Dask cluster."""
