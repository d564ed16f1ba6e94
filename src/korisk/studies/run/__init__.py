"""Run the cells of a study: in this process, in several, or on a Dask cluster.

Start with `engine.run_study`, which runs any work over the cells that a store lacks. `cells` is
the work of a study, and `fits` how its models are fitted. `events` has the queue of cells and the
events that are reported, `worker` a single process, `progress` the display, `compute` the choice of
device and processes, and `clusters` Dask.
"""
