--@use clock
--@use questions
-- Asks the workers of a computer for a publication, and returns what they have published of it.
-- It forgets older questions: a computer without a worker never lists its own, and who asks may not
-- let keys expire.
-- KEYS     asked, asked_since, publication
-- ARGV     name, counts_ms, most
-- Returns  {now in ms, since when it has been asked for, {field, value, ...}}
-- A question counts for `counts_ms`, and no more than `most` count.
forget_questions(asked, asked_since, now_ms - plan.counts_ms)
if redis.call('ZADD', asked, now, plan.name) == 1 then
  redis.call('ZADD', asked_since, now, plan.name)
end
for _, oldest in ipairs(redis.call('ZRANGE', asked, 0, -plan.most - 1)) do
  redis.call('ZREM', asked, oldest)
  redis.call('ZREM', asked_since, oldest)
end
local since = redis.call('ZSCORE', asked_since, plan.name)
return {tostring(now_ms), since or tostring(now_ms), redis.call('HGETALL', publication)}
