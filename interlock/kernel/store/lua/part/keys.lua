-- Reads a list of keys, whose length differs from call to call. Returns the `count` keys from
-- `position` on, and the position of the key after them. Lua unpacks no more than 8,000 at once.
local function keys_at(position, count)
  local next_key = position + count
  local found = {}
  for n = position, next_key - 1 do
    found[#found + 1] = KEYS[n]
  end
  return found, next_key
end
