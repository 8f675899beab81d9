"""The door for systems that are larger than a workflow: what they use beside `interlock`.

Our own systems, in interlock/systems, import `interlock`, this package, `interlock.git`, and their
own modules. docs/own_systems.md shows how a system is written. Its names are in modules, by what
they are about:

- `tables`: what a table has beside the names of `interlock`; modules of tables import no other
- `errors`: what calls about records raise
- `records`: clients, effects and sweeps
- `files`: files that people write, and models that read them
- `pages`: the parts of a page, for the terminal and the console
- `commands`: what commands share
- `agents`: an agent's process under a lease, its reports and its logs
- `models`: language models that a system asks, and capabilities that it calls
- `settings`: the settings of a system
- `text`: lengths of time, and texts as one line or made visible
- `top`: what a system adds to `interlock top`
- `tools`: the tools of agents that a system adds
"""
