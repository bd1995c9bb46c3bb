"""Adapters to engines that others wrote, each in a process and an environment of its own."""
