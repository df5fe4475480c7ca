/** Each event has a hash that covers the one before it. What is older than this gets its hash behind the log, a step at a time:
 *  until a session's `head` is set, its events have none. The house has a log of its own. */
export const chain = `
alter table event add column hash text;
alter table session add column head text;
create table unchained (
  session_id text primary key,
  seq integer not null default 0,
  hash text
) strict, without rowid;
insert into unchained (session_id) select id from session;

create table house_event (
  seq integer primary key,
  at integer not null,
  type text not null,
  body text not null,
  hash text not null
) strict;
`
