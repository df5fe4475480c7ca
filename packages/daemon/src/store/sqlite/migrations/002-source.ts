export const source = `
create table source (
  name text primary key,
  last_n integer not null
) strict, without rowid;
insert into source (name, last_n) select source, max(n) from event where n is not null group by source;
`
