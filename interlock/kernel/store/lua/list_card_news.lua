--@use clock
-- Lists by which records a partition's open cards differ from those that were reported.
-- KEYS     waits, reported_cards, reported_ends
-- ARGV     limit
-- Returns  {ms, position up to which ends were reported or '', {record, ms, ...} that wait and were
--          not reported as waiting since then, {record, ms, ...} reported that wait no longer}
-- It lists at most `limit` cards that were opened, and as many that were withdrawn.
local function listed(index, is_news)
  local found, rows = {}, redis.call('ZRANGE', index, 0, -1, 'WITHSCORES')
  for n = 1, #rows, 2 do
    if #found >= 2 * plan.limit then
      break
    end
    if is_news(rows[n], rows[n + 1]) then
      found[#found + 1] = rows[n]
      found[#found + 1] = rows[n + 1]
    end
  end
  return found
end

local opened = listed(waits, function(id, ms)
  return redis.call('ZSCORE', reported_cards, id) ~= ms
end)
local withdrawn = listed(reported_cards, function(id)
  return not redis.call('ZSCORE', waits, id)
end)
return {now_ms, redis.call('GET', reported_ends) or '', opened, withdrawn}
