-- Keeps a message that no process can act on, and counts it. So that all of them together have no
-- more than a number of bytes, the oldest are dropped; the counts are not.
-- KEYS     rejected messages, counts, bytes of those that are kept
-- ARGV     kind, reason, body, verb or '', limit of bytes
-- Returns  {how many of this kind there were}
local rejected = KEYS[1]
local counts = KEYS[2]
local bytes = KEYS[3]
local kind = ARGV[1]
local reason = ARGV[2]
local body = ARGV[3]
local verb = ARGV[4]
local bytes_max = tonumber(ARGV[5])

local size = #reason + #body
redis.call(
  'XADD', rejected, '*', 'kind', kind, 'reason', reason, 'body', body, 'verb', verb, 'size', size
)
local kept = redis.call('INCRBY', bytes, size)
while kept > bytes_max and redis.call('XLEN', rejected) > 1 do
  local oldest = redis.call('XRANGE', rejected, '-', '+', 'COUNT', 1)[1]
  redis.call('XDEL', rejected, oldest[1])
  kept = redis.call('DECRBY', bytes, oldest[2][10])
end
return {redis.call('HINCRBY', counts, kind, 1)}
