--@use clock
-- Lists by which records a partition's open cards differ from those that were reported.
-- KEYS     waits, reported cards, reported ends
-- ARGV     how many to list at most of the opened, and of the withdrawn
-- Returns  {ms, position up to which ends were reported or '', {record, ms, ...} that wait and were
--          not reported as waiting since then, {record, ms, ...} reported that wait no longer}
local waits = KEYS[1]
local reported = KEYS[2]
local reported_ends = KEYS[3]
local limit = tonumber(ARGV[1])

local function listed(index, is_news)
  local found, rows = {}, redis.call('ZRANGE', index, 0, -1, 'WITHSCORES')
  for n = 1, #rows, 2 do
    if #found >= 2 * limit then
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
  return redis.call('ZSCORE', reported, id) ~= ms
end)
local withdrawn = listed(reported, function(id)
  return not redis.call('ZSCORE', waits, id)
end)
return {now_ms, redis.call('GET', reported_ends) or '', opened, withdrawn}
