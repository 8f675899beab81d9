-- Reads a list of keys, whose length differs from call to call. Returns the `count` keys from
-- `position` on, and the position of the key after them.
local function keys_at(position, count)
  local next_key = position + count
  return {unpack(KEYS, position, next_key - 1)}, next_key
end
