-- The role that pglockwatch connects as: it sees what other sessions do, and may do nothing else.
-- Give it a password with \password pglockwatch, or a line in pg_hba.conf.
CREATE ROLE pglockwatch LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE CONNECTION LIMIT 3;
GRANT pg_monitor TO pglockwatch;
