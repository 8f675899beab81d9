--@use clock
-- Gives an entry a new token, higher than any that an effect of this record had before, even where
-- the clock was set back. Returns the record's version.
local function renew_token(record, entry, nonce)
  local last_token, version = unpack(redis.call('HMGET', record, 'last_token', 'version'))
  local number = string.format('%.0f', math.max(tonumber(last_token) + 1, now_us))
  redis.call('HSET', record, 'last_token', number)
  entry.token = number .. '-' .. nonce
  return version
end
