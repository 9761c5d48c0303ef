"""Every pool takes a session lock, gives the connection back, and goes on. Then a line of JSON says which pools there
are, and all of them live until the process is killed. PGHOST and PGPORT say where."""

import asyncio
import importlib.metadata
import json
import os

import asyncpg
import psycopg2.pool
import psycopg_pool
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

HOST, PORT = os.environ["PGHOST"], int(os.environ["PGPORT"])
NAMES = iter(range(1, 100))
tried = []


def dsn(name):
    return f"host={HOST} port={PORT} user=postgres dbname=postgres application_name='{name}'"


def lock():
    return f"SELECT pg_advisory_lock({next(NAMES)})"


def note(name, *packages):
    versions = {package: importlib.metadata.version(package) for package in packages}
    tried.append({"application": name, "versions": versions})


def psycopg_sync(name):
    pool = psycopg_pool.ConnectionPool(dsn(name), min_size=1, max_size=1, open=True)
    with pool.connection() as connection:
        connection.execute(lock())
    with pool.connection() as connection:
        connection.execute("SELECT 'something else'")
    note(name, "psycopg", "psycopg-pool")
    return pool


def psycopg2_pool(name):
    pool = psycopg2.pool.SimpleConnectionPool(1, 1, dsn(name))
    for sql in (lock(), "SELECT 'something else'"):
        connection = pool.getconn()
        connection.cursor().execute(sql)
        pool.putconn(connection)
    note(name, "psycopg2-binary")
    return pool


def engine(name, driver, package, **options):
    # pg8000 has its own word for it.
    named = {"application_name": name}
    made = sqlalchemy.create_engine(
        f"postgresql+{driver}://postgres@{HOST}:{PORT}/postgres", connect_args=named, **options
    )
    for sql in (lock(), "SELECT 'something else'"):
        with made.connect() as connection:
            connection.execute(sqlalchemy.text(sql))
    note(name, "SQLAlchemy", package)
    return made


async def psycopg_async(name):
    pool = psycopg_pool.AsyncConnectionPool(dsn(name), min_size=1, max_size=1, open=False)
    await pool.open()
    for sql in (lock(), "SELECT 'something else'"):
        async with pool.connection() as connection:
            await connection.execute(sql)
    note(name, "psycopg", "psycopg-pool")
    return pool


async def asyncpg_pool(name, **options):
    pool = await asyncpg.create_pool(
        host=HOST, port=PORT, user="postgres", database="postgres", min_size=1, max_size=1,
        server_settings={"application_name": name}, **options
    )
    for sql in (lock(), "SELECT 'something else'"):
        async with pool.acquire() as connection:
            await connection.execute(sql)
    note(name, "asyncpg")
    return pool


async def async_engine(name, **options):
    made = create_async_engine(
        f"postgresql+asyncpg://postgres@{HOST}:{PORT}/postgres",
        connect_args={"server_settings": {"application_name": name}}, **options
    )
    for sql in (lock(), "SELECT 'something else'"):
        async with made.connect() as connection:
            await connection.execute(sqlalchemy.text(sql))
    note(name, "SQLAlchemy", "asyncpg")
    return made


async def no_reset(_connection):
    pass


async def main():
    alive = [
        psycopg_sync("psycopg pool"),
        await psycopg_async("psycopg async pool"),
        psycopg2_pool("psycopg2 pool"),
        await asyncpg_pool("asyncpg pool"),
        await asyncpg_pool("asyncpg pool without reset", reset=no_reset),
        engine("SQLAlchemy on psycopg", "psycopg", "psycopg"),
        engine("SQLAlchemy on psycopg2", "psycopg2", "psycopg2-binary"),
        engine("SQLAlchemy on pg8000", "pg8000", "pg8000"),
        engine("SQLAlchemy NullPool", "psycopg", "psycopg", poolclass=sqlalchemy.NullPool),
        await async_engine("SQLAlchemy on asyncpg"),
        await async_engine("SQLAlchemy NullPool on asyncpg", poolclass=sqlalchemy.NullPool),
    ]
    print(json.dumps(tried), flush=True)
    await asyncio.Event().wait()
    # A pool that nobody refers to would close its connections.
    del alive


asyncio.run(main())
