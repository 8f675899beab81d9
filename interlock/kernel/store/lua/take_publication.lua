--@use clock
-- Takes the first of several publications that no worker of the computer has taken within a period,
-- so that only the caller makes it.
-- KEYS     publications_taken
-- ARGV     period_ms, names...
-- Returns  {name}, or {} if all are taken
redis.call('ZREMRANGEBYSCORE', publications_taken, '-inf', now_ms - plan.period_ms)
for _, name in ipairs(plan.names) do
  if redis.call('ZADD', publications_taken, 'NX', now, name) == 1 then
    redis.call('PEXPIRE', publications_taken, plan.period_ms)
    return {name}
  end
end
return {}
