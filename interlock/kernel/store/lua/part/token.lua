--@use clock
-- Returns the number of a new token: it is higher than any that an effect of this record had
-- before, even where the clock was set back.
local function number_after(last_token)
  return string.format('%d', math.max(tonumber(last_token) + 1, now_us))
end

-- Counts on to the number of a new token. Returns it and the record's version.
local function next_token(record)
  local last_token, version = unpack(redis.call('HMGET', record, 'last_token', 'version'))
  local number = number_after(last_token)
  redis.call('HSET', record, 'last_token', number)
  return number, version
end

-- Gives an entry a new token. Returns the record's version.
local function renew_token(record, entry, nonce)
  local number, version = next_token(record)
  entry.token = number .. '-' .. nonce
  return version
end
