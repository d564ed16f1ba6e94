"""Run the cells of a study: in this process, in several, or on a Dask cluster.

Start with `engine.run_study`, which runs any work over the cells that a store lacks. `cells` is
the work of a study: what one cell computes, with the errors of single layers for the theorem.
`events` holds the queue of cells and what is reported of them, `worker` one process, `usage` the
time and memory of a cell, `progress` the display, `clusters` everything about Dask and batch
systems, and `sharded` the command that trains the dense network of a point over several processes.
"""
