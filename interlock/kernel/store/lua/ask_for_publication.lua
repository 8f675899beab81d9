--@use clock
--@use questions
-- Asks the workers of a computer for a publication, and returns what they have published of it.
-- It forgets older questions: a computer without a worker never lists its own, and who asks may not
-- let keys expire.
-- KEYS     asked, asked since, publication
-- ARGV     name, ms for which a question counts, how many questions count
-- Returns  {now in ms, since when it has been asked for, {field, value, ...}}
local asked = KEYS[1]
local asked_since = KEYS[2]
local publication = KEYS[3]
local name = ARGV[1]
local counts_ms = tonumber(ARGV[2])
local most = tonumber(ARGV[3])

forget_questions(asked, asked_since, now_ms - counts_ms)
if redis.call('ZADD', asked, now, name) == 1 then
  redis.call('ZADD', asked_since, now, name)
end
for _, oldest in ipairs(redis.call('ZRANGE', asked, 0, -most - 1)) do
  redis.call('ZREM', asked, oldest)
  redis.call('ZREM', asked_since, oldest)
end
local since = redis.call('ZSCORE', asked_since, name)
return {tostring(now_ms), since or tostring(now_ms), redis.call('HGETALL', publication)}
