"""A job below django-pglock's lock. PGHOST and its kin say where; the argument is the lock's name."""

import sys
import time

import django
from django.conf import settings

database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres"}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["pgactivity", "pglock"])
django.setup()

import pglock  # noqa: E402 (it needs the settings)

with pglock.advisory(sys.argv[1]):
    time.sleep(60)
