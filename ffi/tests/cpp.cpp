// ringleader.hpp: every object, what it throws, what it leaves behind.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "ringleader.hpp"

#include "check.h"

namespace {

using namespace std::chrono_literals;
namespace rl = ringleader;

class adding : public rl::application {
  public:
    explicit adding(std::atomic<int> &gone) : gone_(gone) {}
    ~adding() override { gone_++; }

    void apply(const rl::entry &entry) override {
        std::uint64_t value = 0;
        if (entry.payload().size() != sizeof value) {
            throw std::runtime_error("no number");
        }
        std::memcpy(&value, entry.payload().data(), sizeof value);
        CHECK(entry.text().size() == sizeof value && entry.index() > last_ && entry.term() > 0);
        last_ = entry.index();
        sum_ += value;
        count_++;
    }
    void save(rl::snapshot &out) override {
        std::uint64_t state[2] = {sum_, count_};
        out.write(rl::as_bytes(state));
    }
    void load(rl::bytes state) override {
        CHECK(state.size() == 16);
        std::uint64_t words[2];
        std::memcpy(words, state.data(), sizeof words);
        sum_ = words[0];
        count_ = words[1];
    }

    std::atomic<std::uint64_t> sum_{0}, count_{0};

  private:
    std::uint64_t last_ = 0;
    std::atomic<int> &gone_;
};

// What does not save, and does not load.
struct plain : rl::application {
    void apply(const rl::entry &) override {}
};

ringleader_options of(std::uint32_t node) {
    auto options = rl::options();
    ringleader_options same = options_of(node, rl::nodes(node));
    CHECK(options.size == same.size);
    return same;
}

template <typename F> std::int32_t thrown(F f) {
    try {
        f();
    } catch (const rl::error &error) {
        CHECK(std::string(error.what()).find(ringleader_status_name(error.status())) == 0);
        return error.status();
    }
    return RINGLEADER_OK;
}

void spans() {
    std::vector<std::uint8_t> bytes{1, 2, 3};
    rl::bytes all = bytes;
    CHECK(all.size() == 3 && all[2] == 3 && !all.empty() && rl::bytes().empty());
    int sum = 0;
    for (auto byte : all) {
        sum += byte;
    }
    CHECK(sum == 6);
    CHECK(rl::as_bytes("text").size() == 4 && rl::as_bytes(std::string("texts")).size() == 5);
    CHECK(rl::as_bytes(std::uint32_t{7}).size() == 4);
    static_assert(rl::nodes(1, 3) == 10 && rl::nodes() == 0);
    static_assert(!std::is_copy_constructible_v<rl::node> && std::is_nothrow_move_constructible_v<rl::node>);
    static_assert(!std::is_copy_constructible_v<rl::lane> && std::is_nothrow_move_constructible_v<rl::lane>);
}

void one_node() {
    std::atomic<int> gone{0};
    auto application = std::make_shared<adding>(gone);
    auto node = rl::node::open(of(1), application);
    CHECK(thrown([&] { node.transfer(2, 1s); }) == RINGLEADER_NOT_LEADER);
    node.form();
    CHECK(thrown([&] { node.form(1s); }) == RINGLEADER_NOT_FRESH);
    UNTIL(node.leads());
    CHECK(node.members().count == 1 && node.look().leader == 1);
    auto lane = node.lane();
    CHECK(!lane.poll() && !lane.wait(1s) && lane.outstanding() == 0);
    for (std::uint64_t value = 1; value <= 100; value++) {
        CHECK(lane.propose(rl::as_bytes(value)) == 2 * (value - 1));
        auto draft = lane.try_draft(64);
        CHECK(draft && draft->payload().size() == 64);
        CHECK(thrown([&] { lane.propose({}); }) == RINGLEADER_DRAFT_OPEN);
        std::memcpy(draft->payload().data(), &value, sizeof value);
        CHECK(draft->commit(sizeof value) == 2 * value - 1);
        auto dropped = lane.try_draft(1000);
        auto moved = std::move(*dropped);
        moved.payload()[0] = 1;
    }
    for (std::uint64_t ticket = 0; ticket < 200; ticket++) {
        auto outcome = lane.wait();
        CHECK(outcome && outcome->ticket == ticket && rl::is_committed(*outcome));
    }
    UNTIL(application->count_ == 200);
    CHECK(application->sum_ == 2 * 5050);
    CHECK(thrown([&] { lane.propose({nullptr, lane.max_payload() + 1}); }) == RINGLEADER_NULL);
    CHECK(thrown([&] { (void)lane.try_draft(lane.max_payload() + 1); }) == RINGLEADER_TOO_LARGE);
    CHECK(thrown([&] { lane.tell(); }) == RINGLEADER_OPTION);
    std::size_t filled = 0;
    while (lane.try_propose(rl::as_bytes(std::uint64_t{0}))) {
        filled++;
    }
    CHECK(thrown([&] { lane.propose(rl::as_bytes(std::uint64_t{0})); }) == RINGLEADER_FULL);
    while (filled > 0) {
        CHECK(lane.wait());
        filled--;
    }

    std::uint64_t told = 0;
    auto telling = node.lane([&told](const rl::outcome &outcome) {
        CHECK(rl::is_committed(outcome));
        told++;
    });
    auto moved = std::move(telling);
    for (int i = 0; i < 50; i++) {
        moved.propose(rl::as_bytes(std::uint64_t{1}));
    }
    UNTIL((moved.tell(), told == 50));

    auto reader = node.reader();
    CHECK(!reader.poll() && !reader.wait(1s));
    auto read = reader.read(RINGLEADER_READ_QUORUM, 60s);
    CHECK(read && rl::is_ready(*read));
    read = reader.read(RINGLEADER_READ_LEASE, 60s);
    CHECK(read && read->status == RINGLEADER_NO_LEASE_READS);
    CHECK(thrown([&] { reader.try_ask(9); }) == RINGLEADER_OPTION);
    UNTIL(node.count().reads == 1);
    bool elected = false;
    while (auto event = node.next_event()) {
        elected |= event->kind == RINGLEADER_EVENT_ELECTED;
    }
    CHECK(elected);
    CHECK(thrown([&] { node.change_members(RINGLEADER_CHANGE_ADD, 1, 0s, std::string(99, 'x')); }) ==
          RINGLEADER_ADDRESS);
    CHECK(thrown([&] { node.change_members(RINGLEADER_CHANGE_REMOVE, 5, 60s); }) == RINGLEADER_NOT_MEMBER);
    node.close();
    CHECK(thrown([&] { node.form(); }) == RINGLEADER_NULL);
    lane.close();
    reader.close();
    application.reset();
    UNTIL(gone == 1);
}

void failures() {
    std::atomic<int> gone{0};
    CHECK(thrown([] { rl::node::open(of(1), nullptr); }) == RINGLEADER_NULL);
    auto wrong = of(1);
    wrong.ring_len = 1;
    CHECK(thrown([&] { rl::node::open(wrong, std::make_shared<adding>(gone)); }) == RINGLEADER_OPTION);
    CHECK(gone == 1);
    CHECK(thrown([&] { rl::node::open_file("/nowhere", 1, std::make_shared<adding>(gone)); }) == RINGLEADER_OPTION);
    CHECK(gone == 2);
    CHECK(thrown([] { rl::timing(9); }) == RINGLEADER_OPTION);
    CHECK(rl::timing(RINGLEADER_TIMING_LOCAL).beat_ns > 0);

    // An exception out of apply ends the node.
    auto node = rl::node::open(of(1), std::make_shared<adding>(gone));
    node.form();
    UNTIL(node.leads());
    auto lane = node.lane();
    lane.propose(rl::as_bytes("not a number"));
    UNTIL(node.look().closed);
    CHECK(thrown([&] { node.close(); }) == RINGLEADER_APPLICATION);
    UNTIL(gone == 3);
}

void polled() {
    std::atomic<int> gone{0};
    auto agent = rl::agent::polled();
    CHECK(!agent.poll());
    auto application = std::make_shared<adding>(gone);
    std::optional<rl::node> node = rl::node::open(agent, of(2), application);
    CHECK(agent.groups() == 1);
    node->form();
    while (!node->leads()) {
        agent.poll(100us);
    }
    std::uint64_t told = 0;
    auto lane = node->lane([&](const rl::outcome &) { told++; });
    for (int i = 0; i < 10; i++) {
        lane.propose(rl::as_bytes(std::uint64_t{2}));
    }
    while (told < 10 || application->count_ < 10) {
        agent.poll(1ms);
    }
    CHECK(application->sum_ == 20);
    CHECK(thrown([&] { agent.close(); }) == RINGLEADER_IN_USE);
    std::thread([&] {
        CHECK(thrown([&] { agent.poll(); }) == RINGLEADER_WRONG_THREAD);
        CHECK(thrown([&] { node->close(); }) == RINGLEADER_WRONG_THREAD);
    }).join();
    node.reset();
    CHECK(agent.groups() == 0);
    agent.close();
    auto started = rl::agent::start();
    CHECK(thrown([&] { started.poll(); }) == RINGLEADER_NOT_POLLED);
    application.reset();
    UNTIL(gone == 1);
}

// A lane that goes waits for who tells it, and takes its callback along only then.
void told_elsewhere() {
    std::atomic<int> gone{0};
    auto node = rl::node::open(of(1), std::make_shared<adding>(gone));
    node.form();
    UNTIL(node.leads());
    for (bool moves : {false, true}) {
        std::atomic<bool> telling{false}, may_return{false};
        std::optional<rl::lane> lane = node.lane([&, held = std::make_shared<int>(7)](const rl::outcome &) {
            telling = true;
            UNTIL(may_return);
            CHECK(*held == 7);
        });
        lane->propose(rl::as_bytes(std::uint64_t{1}));
        std::thread teller([handle = lane->get()] {
            std::uint64_t count = 0;
            UNTIL((OK(ringleader_lane_tell(handle, &count)), count > 0));
        });
        UNTIL(telling);
        CHECK(thrown([&] { lane->close(); }) == RINGLEADER_BUSY);
        std::thread later([&] {
            std::this_thread::sleep_for(50ms);
            may_return = true;
        });
        if (moves) {
            *lane = node.lane();
        } else {
            lane.reset();
        }
        CHECK(may_return);
        teller.join();
        later.join();
    }
}

// A state that is saved by one node and loaded by another, and what cannot.
void snapshots() {
    std::atomic<int> gone{0};
    std::vector<std::shared_ptr<adding>> states;
    std::vector<std::optional<rl::node>> nodes(3);
    auto options = [](std::uint32_t node) { return options_of(node, rl::nodes(1, 2, 3)); };
    for (std::uint32_t id = 1; id <= 3; id++) {
        states.push_back(std::make_shared<adding>(gone));
        nodes[id - 1] = rl::node::open(options(id), states.back());
    }
    nodes[0]->form();
    auto commit = [&](std::size_t count) {
        for (std::size_t done = 0; done < count;) {
            std::size_t leads = 3;
            UNTIL((leads = 0, [&] {
                while (leads < nodes.size() && !(nodes[leads] && nodes[leads]->leads())) {
                    leads++;
                }
                return leads < nodes.size();
            }()));
            auto lane = nodes[leads]->lane();
            for (bool lost = false; !lost && done < count;) {
                while (lane.outstanding() < 200 && lane.try_propose(rl::as_bytes(std::uint64_t{3}))) {
                }
                auto outcome = lane.wait();
                lost = !outcome || !rl::is_committed(*outcome);
                done += !lost;
            }
        }
    };
    commit(2000);
    nodes[2].reset();
    // More than a ring of them.
    commit(12000);
    states[2] = std::make_shared<adding>(gone);
    nodes[2] = rl::node::open(options(3), states[2]);
    for (;;) {
        auto leader = nodes[0]->leads() ? 0u : 1u;
        auto status = thrown([&] { nodes[leader]->change_members(RINGLEADER_CHANGE_READMIT, 3, 60s); });
        if (status == RINGLEADER_OK) {
            break;
        }
        CHECK(status == RINGLEADER_NOT_LEADER || status == RINGLEADER_UNKNOWN || status == RINGLEADER_WOULD_STOP);
        nap();
    }
    commit(1);
    UNTIL(states[2]->count_ >= 14000 && states[2]->sum_ == states[0]->sum_ && states[2]->sum_ == states[1]->sum_);
    UNTIL(nodes[2]->count().loaded >= 1);
}

} // namespace

int main() {
    make_directory();
    spans();
    one_node();
    failures();
    polled();
    told_elsewhere();
    if (!alone()) {
        snapshots();
    }
    auto open = rl::node::open(of(3), std::make_shared<plain>());
    return 0;
}
