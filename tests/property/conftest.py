"""Profiles: the same examples every time, or with HYPOTHESIS_PROFILE=thorough many new ones."""

import os

from hypothesis import settings

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
