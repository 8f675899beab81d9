-- Notes the format of a partition that has none, and returns the noted one.
-- KEYS     meta
-- ARGV     format, partitions
-- Returns  {format, partitions}
local meta = KEYS[1]
local format = ARGV[1]
local partitions = ARGV[2]

if redis.call('HSETNX', meta, 'format', format) == 1 then
  redis.call('HSET', meta, 'partitions', partitions)
end
return redis.call('HMGET', meta, 'format', 'partitions')
