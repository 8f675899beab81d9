--@use entry budget
-- Takes what a holder reports out of what it has reserved, or out of the residue that was booked
-- when it was lost.
-- spender = {suffix, token, is_final}: a final report gives the rest back
local function settle_spender(record, chain, spender, deltas)
  local suffix, token, is_final = unpack(spender)
  local used = not is_final and deltas or nil
  local entry = read_entry(record, suffix)
  if entry and entry.token == token then
    entry.reserved = give_back(chain, 'reserved', entry.reserved, used)
    write_entry(record, suffix, entry)
    return
  end
  local field = 'l:' .. token
  local left = give_back(chain, 'residue', redis.call('HGET', record, field) or '-', used)
  if left == '-' then
    redis.call('HDEL', record, field)
  else
    redis.call('HSET', record, field, left)
  end
end
