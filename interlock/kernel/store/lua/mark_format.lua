-- Marks a partition with another format, if it still has the one that was read.
-- KEYS     meta
-- ARGV     before, after, partitions, version
-- Returns  {status, format}: marked, or has (it has this one already), or other
-- `before` is '' where it has none. `version` is that of Interlock that is to be installed for the
-- format that it gets, '' where it is not known.
local found = redis.call('HGET', meta, 'format') or ''
if found == plan.after then
  return {'has', found}
end
if found ~= plan.before then
  return {'other', found}
end
redis.call('HSET', meta, 'format', plan.after, 'partitions', plan.partitions)
if plan.version == '' then
  redis.call('HDEL', meta, 'version')
else
  redis.call('HSET', meta, 'version', plan.version)
end
return {'marked', plan.after}
