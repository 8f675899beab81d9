-- What attempts at the effects of a record have saved are fields '<suffix> <name>' of one hash.

-- Forgets what was saved under an effect that has ended.
local function forget_saved(saved, suffix)
  for _, field in ipairs(redis.call('HKEYS', saved)) do
    if string.match(field, '^(%S+) ') == suffix then
      redis.call('HDEL', saved, field)
    end
  end
end
