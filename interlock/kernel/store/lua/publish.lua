--@use clock
-- Publishes what a computer is asked for, in the place of what was published before. Without
-- fields, says that the caller has none, unless another worker of the computer has published it.
-- KEYS     publication
-- ARGV     kept_ms, pairs*...
-- Returns  {'published'}
-- `pairs` are a field and its value in turn; it is dropped after `kept_ms`.
if plan.pairs[1] or redis.call('HLEN', publication) <= 1 then
  redis.call('HSET', publication, 'at_ms', now, unpack(plan.pairs))
  redis.call('PEXPIRE', publication, plan.kept_ms)
end
return {'published'}
