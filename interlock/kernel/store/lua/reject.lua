-- Keeps a message that no process can act on, and counts it. So that all of them together have no
-- more than a number of bytes, the oldest are dropped; the counts are not.
-- KEYS     rejected, counts, bytes
-- ARGV     kind, reason*, body*, verb, bytes_max
-- Returns  {how many of this kind there were}
local size = #plan.reason + #plan.body
redis.call(
  'XADD', rejected, '*', 'kind', plan.kind, 'reason', plan.reason, 'body', plan.body,
  'verb', plan.verb, 'size', size
)
local kept = redis.call('INCRBY', bytes, size)
while kept > plan.bytes_max and redis.call('XLEN', rejected) > 1 do
  local oldest = redis.call('XRANGE', rejected, '-', '+', 'COUNT', 1)[1]
  redis.call('XDEL', rejected, oldest[1])
  kept = redis.call('DECRBY', bytes, oldest[2][10])
end
return {redis.call('HINCRBY', counts, plan.kind, 1)}
