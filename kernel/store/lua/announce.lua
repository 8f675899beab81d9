-- Keeps what a machine says of itself, in place of what it said before.
-- KEYS     hosts
-- ARGV     host, facts
-- Returns  {'kept'}
local hosts = KEYS[1]
local host = ARGV[1]
local facts = ARGV[2]

redis.call('HSET', hosts, host, facts)
return {'kept'}
