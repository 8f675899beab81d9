--@use entry
-- Stops asking a person about a record, unless another of its effects is still quarantined or its
-- state itself waits for a person.
local function end_quarantine(record, waits, timers, id)
  for _, suffix in ipairs(entry_suffixes(record)) do
    if read_entry(record, suffix).state == 'quarantined' then
      return
    end
  end
  redis.call('HDEL', record, 't:quarantine')
  redis.call('ZREM', timers, id .. ':quarantine')
  if redis.call('HGET', record, 'waits') ~= '1' then
    redis.call('ZREM', waits, id)
  end
end
