-- Keeps a message that no process can act on, and counts it. The oldest messages are dropped, the
-- counts are not.
-- KEYS     rejected messages, counts
-- ARGV     kind, message, limit of messages
-- Returns  {how many of this kind there were}
local rejected = KEYS[1]
local counts = KEYS[2]
local kind = ARGV[1]
local message = ARGV[2]
local messages_max = tonumber(ARGV[3])

redis.call('LPUSH', rejected, message)
redis.call('LTRIM', rejected, 0, messages_max - 1)
return {redis.call('HINCRBY', counts, kind, 1)}
