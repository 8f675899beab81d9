-- Notes the format of a partition that has none, and which version of Interlock has written that,
-- and returns what is noted.
-- KEYS     meta
-- ARGV     format, partitions, version
-- Returns  {format, partitions, version}
if redis.call('HSETNX', meta, 'format', plan.format) == 1 then
  redis.call('HSET', meta, 'partitions', plan.partitions)
end
if redis.call('HGET', meta, 'format') == plan.format then
  redis.call('HSETNX', meta, 'version', plan.version)
end
return redis.call('HMGET', meta, 'format', 'partitions', 'version')
