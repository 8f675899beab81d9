--@use clock
-- Keeps what a computer says of itself, in place of what it said before, and when it said so. What
-- computers said that have been silent for too long is removed.
-- KEYS     hosts, announced
-- ARGV     host, facts, ms of silence after which a computer is no longer believed
-- Returns  {'kept'}
local hosts = KEYS[1]
local announced = KEYS[2]
local host = ARGV[1]
local facts = ARGV[2]
local silence_ms = tonumber(ARGV[3])

for _, silent in ipairs(redis.call('ZRANGE', announced, '-inf', now_ms - silence_ms, 'BYSCORE')) do
  redis.call('HDEL', hosts, silent)
  redis.call('ZREM', announced, silent)
end
redis.call('HSET', hosts, host, facts)
redis.call('ZADD', announced, now, host)
return {'kept'}
