--@use clock
-- Writes a note about an effect into its record's log. The detail is a JSON object; `fields` are
-- its fields, as a format for the values. cjson.encode made a claim 1 % slower and leaves the order
-- of fields open. A format is safe, because no value can hold a quote or a backslash: the store
-- makes suffixes and tokens itself, and Python makes one word of a holder's name (sanitized).
local function write_effect_note(log, version, kind, fields, ...)
  local detail = '{' .. string.format(fields, ...) .. '}'
  redis.call('XADD', log, version .. '-*', 'note', kind, 'detail', detail, 'at', now)
end

local function write_claim_note(log, version, suffix, token, attempt, holder)
  local fields = '"effect":"%s","token":"%s","attempt":%d,"holder":"%s"'
  write_effect_note(log, version, 'claim', fields, suffix, token, attempt, holder)
end
