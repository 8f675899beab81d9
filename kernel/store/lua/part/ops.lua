-- One call, however often repeated: op-id -> '<digest> <version> <ms>'. Trimmed two at a time.
local function op_known(ops, op, digest)
  local kept = redis.call('HGET', ops, op)
  if not kept then return nil end
  local was, version, at = string.match(kept, '^(%S+) (%S+) (%S+)$')
  if was ~= digest then return {'reused', version, at} end
  return {'replayed', version, at}
end

local function op_record(ops, times, op, digest, version, window_ms)
  redis.call('HSET', ops, op, digest .. ' ' .. version .. ' ' .. now_text)
  redis.call('ZADD', times, now_text, op)
  local old = redis.call('ZRANGE', times, '-inf', whole(now - window_ms), 'BYSCORE', 'LIMIT', 0, 2)
  if #old > 0 then
    redis.call('HDEL', ops, unpack(old))
    redis.call('ZREM', times, unpack(old))
  end
end
