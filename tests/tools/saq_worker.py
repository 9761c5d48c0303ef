"""A worker of SAQ on its default queue. DATABASE_URL says where."""

import asyncio
import os

from saq import Queue, Worker


async def job(_context):
    return None


async def main():
    queue = Queue.from_url(os.environ["DATABASE_URL"])
    await queue.connect()
    await Worker(queue, functions=[job], timers={"sweep": 1}).start()


asyncio.run(main())
