--@use clock
-- Outcomes of calls by op-id, so that a repeated call changes nothing. `ops` maps an op-id to
-- '<digest of the call> <version> <ms>', `times` holds the op-ids by ms. Each new outcome drops at
-- most two that are too old.

-- Returns status, version and time of an earlier call with this op-id, or nil. The status is
-- replayed, or reused where that call was a different one.
local function known_outcome(ops, op_id, digest)
  local outcome = redis.call('HGET', ops, op_id)
  if not outcome then
    return nil
  end
  local known_digest, version, at_ms = string.match(outcome, '^(%S+) (%S+) (%S+)$')
  return known_digest == digest and 'replayed' or 'reused', version, at_ms
end

local function record_outcome(ops, times, op_id, digest, version, window_ms)
  redis.call('HSET', ops, op_id, digest .. ' ' .. version .. ' ' .. now)
  redis.call('ZADD', times, now, op_id)
  local too_old = string.format('%d', now_ms - window_ms)
  local old = redis.call('ZRANGE', times, '-inf', too_old, 'BYSCORE', 'LIMIT', 0, 2)
  if #old > 0 then
    redis.call('HDEL', ops, unpack(old))
    redis.call('ZREM', times, unpack(old))
  end
end
