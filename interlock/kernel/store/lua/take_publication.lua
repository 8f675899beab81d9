--@use clock
-- Takes the first of several publications that no worker of the computer has taken within a period,
-- so that only the caller makes it.
-- KEYS     taken
-- ARGV     period in ms, then {name, ...}
-- Returns  {name}, or {} if all are taken
local taken = KEYS[1]
local period_ms = tonumber(ARGV[1])

redis.call('ZREMRANGEBYSCORE', taken, '-inf', now_ms - period_ms)
for at = 2, #ARGV do
  if redis.call('ZADD', taken, 'NX', now, ARGV[at]) == 1 then
    redis.call('PEXPIRE', taken, period_ms)
    return {ARGV[at]}
  end
end
return {}
