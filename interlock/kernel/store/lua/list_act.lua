-- Lists an act of a person; about the newest `length` of them are kept.
-- KEYS     acts
-- ARGV     record, what, by, roles, reason*, length
-- Returns  {position}
return {redis.call(
  'XADD', acts, 'MAXLEN', '~', plan.length, '*', 'record', plan.record, 'what', plan.what,
  'by', plan.by, 'roles', plan.roles, 'reason', plan.reason
)}
