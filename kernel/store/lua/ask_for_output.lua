--@use clock
-- Asks the worker of a computer for the output in a folder, and returns what it has published.
-- KEYS     asked, asked since, output
-- ARGV     folder, ms for which a question counts, how many questions to a computer count
-- Returns  {now in ms, since when it has been asked for, {output}}
local asked = KEYS[1]
local asked_since = KEYS[2]
local output = KEYS[3]
local folder = ARGV[1]
local counts_ms = tonumber(ARGV[2])
local most = tonumber(ARGV[3])

local before = redis.call('ZSCORE', asked, folder)
if not before or tonumber(before) <= now_ms - counts_ms then
  redis.call('ZADD', asked_since, now_ms, folder)
end
redis.call('ZADD', asked, now_ms, folder)
for _, oldest in ipairs(redis.call('ZRANGE', asked, 0, -most - 1)) do
  redis.call('ZREM', asked, oldest)
  redis.call('ZREM', asked_since, oldest)
end
local since = redis.call('ZSCORE', asked_since, folder)
return {tostring(now_ms), since or tostring(now_ms), redis.call('HGETALL', output)}
