"""The custodian's desk: a web application on this machine where people decide about a release, see what follows, and sign.

It never opens records. It works on schemas, specifications, rehearsals on simulated or public tables, ledgers and bundles, all of them in one folder.
The command line is ``understudy studio`` (:mod:`understudy.cli.commands.studio`).
"""
