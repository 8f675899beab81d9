--@use clock
-- Notes that a run of a sweep has ended, and counts what it did.
-- KEYS     ended, results
-- ARGV     sweep, counts
-- Returns  {'counted'}
-- `counts` has for each status how many items had it.
redis.call('HSET', ended, plan.sweep, now)
for status, count in pairs(plan.counts) do
  redis.call('HINCRBY', results, plan.sweep .. ':' .. status, count)
end
return {'counted'}
