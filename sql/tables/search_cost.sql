-- What the parts of a dense search cost in this installation, in microseconds: what a search's route is chosen by.
create table pgrag_data.search_cost (
  part        text collate "C" not null,
  microseconds double precision not null,
  measured_at timestamptz,               -- null: as shipped
  constraint search_cost_pkey primary key (part),
  constraint search_cost_part_check check (part in ('document', 'vector', 'block')),
  constraint search_cost_microseconds_check check (microseconds > 0 and microseconds < 'Infinity')
);
alter table pgrag_data.search_cost enable row level security, force row level security;
comment on table pgrag_data.search_cost is 'Measured costs that choose between exact search and blocks; pgrag.calibrate() writes them.';
