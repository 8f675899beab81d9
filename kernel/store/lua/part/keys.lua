-- Reads keys that come in a list, whose length differs from call to call.
local NO_KEYS = {}

-- Returns the `count` keys from `position` on, and the position of the key after them.
local function keys_at(position, count)
  if count == 0 then
    return NO_KEYS, position
  end
  local next_key = position + count
  return {unpack(KEYS, position, next_key - 1)}, next_key
end
