CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    point TEXT NOT NULL,
    seed INTEGER NOT NULL,
    spec TEXT NOT NULL,
    spec_hash TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    error TEXT,
    attempts INTEGER NOT NULL,
    started TEXT NOT NULL,
    seconds REAL NOT NULL,
    cpu_seconds REAL,
    peak_memory INTEGER,
    device_memory INTEGER,
    machine TEXT NOT NULL,
    versions TEXT NOT NULL,
    detail TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE rows (
    cell INTEGER NOT NULL REFERENCES cells (id),
    model TEXT NOT NULL,
    n INTEGER NOT NULL,
    metrics TEXT NOT NULL,
    detail TEXT NOT NULL,
    digest TEXT NOT NULL,
    UNIQUE (cell, model, n)
);
CREATE TABLE arrays (
    cell INTEGER NOT NULL REFERENCES cells (id),
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    content BLOB NOT NULL,
    digest TEXT NOT NULL,
    UNIQUE (cell, name)
);
