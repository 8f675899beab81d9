-- A new holder of an effect: a new token, higher than any before it, and one attempt more.
local function grant(record, log, suffix, entry, nonce, holder)
  local stands = redis.call('HMGET', record, 'last', 'version')
  local number = math.max(tonumber(stands[1]) + 1, now_us)
  entry.token, entry.attempts, entry.begun, entry.acked = whole(number) .. '-' .. nonce, entry.attempts + 1, 1, 0
  if entry.once == 1 then entry.carried = 1 end
  redis.call('HSET', record, 'last', whole(number))
  redis.call('XADD', log, stands[2] .. '-*', 'note', 'claim', 'detail',
    '{"effect":"' .. suffix .. '","token":"' .. entry.token .. '","attempt":' .. entry.attempts .. ',"holder":"' .. holder .. '"}', 'at', now_text)
end

local function lease(record, effects, id, suffix, entry, holder, lease_ms)
  entry.state, entry.holder, entry.looks = 'leased', holder, 0
  entry.lease_until = now + lease_ms
  entry.kill_by = entry.lease_until + entry.grace
  entry_write(record, suffix, entry)
  redis.call('ZADD', effects, whole(entry.lease_until), id .. ':' .. suffix)
end

-- Gives what was owed in this same script to who fired it, before anybody else can hear of it.
local function grant_owed(record, log, effects, id, suffix, to)
  local entry = entry_read(record, suffix)
  grant(record, log, suffix, entry, to.nonce, to.holder)
  lease(record, effects, id, suffix, entry, to.holder, to.ms)
end
