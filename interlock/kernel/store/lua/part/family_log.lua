-- Adds a commit to the log of its family: which record came to which version, in the order of
-- commits. At least the newest `length` commits are kept. Nothing is added where `family_log` is
-- nil: only the families of some machines have a log.
local function add_to_family_log(family_log, length, id, version)
  if family_log then
    redis.call('XADD', family_log, 'MAXLEN', '~', length, '*', 'record', id, 'version', version)
  end
end
