"""Git: worktrees, commits, merges and pushes. Only this package runs the `git` program.

It keeps three rules. It does not touch the user's uncommitted work. Every step may be repeated
after a crash. Every call ends: git has a time limit, and runs without prompts, editors and hooks.

The modules speak of a task, as the first system has them; any record may have a worktree. An agent
works in one like this. The calls are in `repository`, `worktree`, `private_copy`, `saved_work`,
`diff` and `branch`, `Sandbox` is in `interlock.system.agents`; `settings` is `Records.settings`:

    repository = Repository.open(Path("shop"), sandbox=Sandbox.open(settings))
    worktree = add_worktree(
        repository,
        branch="interlock/inspections/in-1",  # new, and this record's alone
        folder=settings.worktree_folder / "inspections" / "in-1",
        base=None,  # what the repository has checked out
    )
    sandbox = sandbox_of(repository, worktree)  # of the agent's `Command`, with `worktree.folder`

    # once the agent has ended:
    bring_in(repository, worktree)  # what it has committed
    author = Identity("Inspector", "inspector@localhost")
    save_work(repository, worktree, message="in-1", identity=author)  # what it has not committed
    changed = diff(
        repository, base=worktree.base, commit=worktree.branch, bytes_max=100_000, within_s=10
    )
    remove_worktree(repository, worktree.folder, force=True)  # the branch stays
    delete_branch(repository, worktree.branch, target="", force=True)  # merged or not

A repeat of `add_worktree` completes the worktree, with the base of the first call. `interlock
remove` finds the worktrees below `settings.worktree_folder`, saves their work, and removes them and
their branches, except for branches with work that nothing else has; worktrees elsewhere stay.
"""
