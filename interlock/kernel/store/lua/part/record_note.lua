--@use clock
-- Writes a note into a record's log, at the present version of the record. Returns its position.
local function write_note(log, version, kind, detail)
  return redis.call('XADD', log, version .. '-*', 'note', kind, 'detail', detail, 'at', now)
end
