"""The differences that are meant."""


def of_script(name):
    return []


def apply(granted, official, ours):
    return official, ours
