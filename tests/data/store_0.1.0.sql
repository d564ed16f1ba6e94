-- A store that korisk 0.1.0 wrote: two finished cells and a failed one, without digests.
BEGIN TRANSACTION;
CREATE TABLE arrays (
    cell INTEGER NOT NULL REFERENCES cells (id),
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (cell, name)
);
INSERT INTO "arrays" VALUES(1,'curve','<f8','[5]',X'78013B359BD5DF9FED953DF309137D6FD3B7F6DB640DF2FA331FDB070BFCD7E68C786EDF6FFDC52621F5A13D0045FD1090');
INSERT INTO "arrays" VALUES(2,'curve','<f8','[5]',X'7801012800D7FF5CF30FE80BF5D33F1C9E77D1C717DB3FCDBD68268A7CEA3F8E7210935130DA3F3F9A54804596E13FA03E137F');
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
    detail TEXT NOT NULL
);
INSERT INTO "cells" VALUES(1,'a, seed 0','a',0,'{"metric": "mse", "sizes": [4, 16]}','5427f701355e1247','done',NULL,1,'2026-01-02T03:04:05.000006+00:00',5.00529997225385159254e-04,5.10129000000025811801e-04,52645888,NULL,'{"platform": "Linux", "processor": "aarch64", "cores": 2}','{"python": "3.11.7", "korisk": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1", "torch": "2.13.0+cpu"}','{"draws": 9}');
INSERT INTO "cells" VALUES(2,'a, seed 1','a',1,'{"metric": "mse", "sizes": [4, 16]}','5427f701355e1247','done',NULL,1,'2026-01-02T03:04:05.000006+00:00',6.93850000970996916294e-04,0.000670424999999919,53350400,NULL,'{"platform": "Linux", "processor": "aarch64", "cores": 2}','{"python": "3.11.7", "korisk": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1", "torch": "2.13.0+cpu"}','{"draws": 9}');
INSERT INTO "cells" VALUES(3,'a, seed 2','a',2,'{"metric": "mse", "sizes": [4, 16]}','5427f701355e1247','failed','ValueError: no images',1,'2026-01-02T03:04:05.000006+00:00',0.000434371002484113,4.38892000000024040673e-04,53350400,NULL,'{"platform": "Linux", "processor": "aarch64", "cores": 2}','{"python": "3.11.7", "korisk": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1", "torch": "2.13.0+cpu"}','{}');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('study','{"name": "old"}');
INSERT INTO "meta" VALUES('korisk','0.1.0');
INSERT INTO "meta" VALUES('created','2026-01-02T03:04:05.000006+00:00');
CREATE TABLE rows (
    cell INTEGER NOT NULL REFERENCES cells (id),
    model TEXT NOT NULL,
    n INTEGER NOT NULL,
    metrics TEXT NOT NULL,
    detail TEXT NOT NULL,
    UNIQUE (cell, model, n)
);
INSERT INTO "rows" VALUES(1,'KO',4,'{"mse": 0.15924042183036358}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(1,'FC',4,'{"mse": 0.06744667844096758}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(1,'KO',16,'{"mse": 0.002560845246012168}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(1,'FC',16,'{"mse": 0.0010329772205330684}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(2,'KO',4,'{"mse": 0.12795540617506418}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(2,'FC',4,'{"mse": 0.23761592408148383}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(2,'KO',16,'{"mse": 0.009009975794977108}','{"lambda": 0.5}');
INSERT INTO "rows" VALUES(2,'FC',16,'{"mse": 0.05929059044607774}','{"lambda": 0.5}');
COMMIT;
PRAGMA application_id = 1265586793;
PRAGMA user_version = 1;
