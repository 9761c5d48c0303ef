"""A suite with a pool: one test takes a lock and forgets it, one gives it back. The test that
guards it hands over a connection string."""

import os
import time

import psycopg
import pytest
from psycopg_pool import ConnectionPool

SERVER = os.environ["PGLOCKWATCH_TEST_GUARDED"]
POLLS = "SELECT query_start FROM pg_stat_activity WHERE application_name = 'pglockwatch'"


def wait_for_polls(count):
    with psycopg.connect(SERVER, autocommit=True) as observer:
        seen, deadline = set(), time.monotonic() + 60
        while len(seen) < count + 2:
            assert time.monotonic() < deadline
            seen.update(observer.execute(POLLS).fetchall())
            time.sleep(0.005)


@pytest.fixture
def pool():
    kwargs = {"application_name": "pytest", "autocommit": True}
    with ConnectionPool(SERVER, min_size=1, max_size=1, kwargs=kwargs) as pool:
        yield pool


def test_forgets(pool):
    with pool.connection() as connection:
        connection.execute("SELECT pg_advisory_lock(612001)")
    time.sleep(2)
    wait_for_polls(2)


def test_gives_back(pool):
    with pool.connection() as connection:
        connection.execute("SELECT pg_advisory_lock(612001)")
        wait_for_polls(2)
        connection.execute("SELECT pg_advisory_unlock(612001)")
    wait_for_polls(2)
