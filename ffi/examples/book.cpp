// A limit order book, by price and then time: three processes, one book.
//
//     book DIRECTORY NODE     or     book --alone < ORDERS
//
// reads lines and answers each with `LINE ok RESULT`, or `LINE retry LEADER` (not done, or not known to be: ask again under the same number):
//
//     CLIENT NUMBER buy QUANTITY PRICE     the result is what was traded at once, and what rests in the book
//     CLIENT NUMBER sell QUANTITY PRICE
//     CLIENT NUMBER cancel NUMBER          that client's order of that number; the result is what was left of it
//
// `?` shows the book, `q` ends it. Alone, without a group, it takes the same lines from its input and shows the book in the end: what all
// copies are compared with.
#include <cstdio>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <unistd.h>

#include <ringleader.hpp>

using namespace std::chrono_literals;

namespace {

struct order {
    std::string client;
    std::uint64_t number = 0, left = 0;
};

// A pure state machine: what it is depends on the lines that it took, and on nothing else.
class book {
  public:
    void take(const std::string &line) {
        std::istringstream words(line);
        std::string client, what;
        std::uint64_t number = 0, quantity = 0, price = 0;
        if (!(words >> client >> number >> what >> quantity)) {
            return;
        }
        auto &last = clients_[client];
        if (number <= last.number) {
            return; // It came again.
        }
        std::string result = "no such-order";
        if (what == "cancel") {
            result = cancel(client, quantity);
        } else if ((what == "buy" || what == "sell") && words >> price && quantity > 0) {
            order taken{client, number, quantity};
            std::uint64_t traded = what == "buy" ? match(sells_, taken, price, std::less_equal<>())
                                                 : match(buys_, taken, price, std::greater_equal<>());
            result = "ok traded-" + std::to_string(traded) + "-rests-" + std::to_string(taken.left);
            if (taken.left > 0) {
                (what == "buy" ? buys_ : sells_)[price].push_back(taken);
            }
        }
        last = {number, result};
    }

    // What came of a line that was taken: a client's last one, or nothing is known of it any more.
    std::string answer(const std::string &line) const {
        std::istringstream words(line);
        std::string client;
        std::uint64_t number = 0;
        if (words >> client >> number) {
            auto last = clients_.find(client);
            if (last != clients_.end() && number <= last->second.number) {
                return number == last->second.number ? last->second.result : "no later-line-came-first";
            }
        }
        return "no such-line";
    }

    // All of it in one line: best prices, depth, volume, and a sum over every order in its place.
    std::string show() const {
        std::ostringstream out;
        out << "trades " << trades_ << " volume " << volume_ << " turnover " << turnover_;
        out << " best " << (buys_.empty() ? 0 : buys_.rbegin()->first) << "/"
            << (sells_.empty() ? 0 : sells_.begin()->first);
        std::uint64_t orders = 0, sum = 14695981039346656037u;
        for (const auto *side : {&buys_, &sells_}) {
            for (const auto &[price, queue] : *side) {
                for (const order &order : queue) {
                    orders++;
                    for (char c : order.client + " " + std::to_string(order.number) + " " +
                                      std::to_string(order.left) + " " + std::to_string(price) + ";") {
                        sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
                    }
                }
            }
        }
        out << " orders " << orders << " sum " << std::hex << sum;
        return out.str();
    }

    std::string save() const {
        std::ostringstream out;
        out << trades_ << " " << volume_ << " " << turnover_ << "\n";
        for (const auto &[name, last] : clients_) {
            out << "c " << name << " " << last.number << " " << last.result << "\n";
        }
        for (const auto *side : {&buys_, &sells_}) {
            for (const auto &[price, queue] : *side) {
                for (const order &order : queue) {
                    out << (side == &buys_ ? "b " : "s ") << order.client << " " << order.number << " " << order.left
                        << " " << price << "\n";
                }
            }
        }
        return out.str();
    }

    static book load(const std::string &saved) {
        book book;
        std::istringstream in(saved);
        std::string kind, name;
        if (!(in >> book.trades_ >> book.volume_ >> book.turnover_)) {
            throw std::runtime_error("no book");
        }
        while (in >> kind >> name) {
            if (kind == "c") {
                client client;
                in >> client.number >> std::ws;
                std::getline(in, client.result);
                book.clients_[name] = client;
            } else {
                order order{name, 0, 0};
                std::uint64_t price = 0;
                in >> order.number >> order.left >> price;
                (kind == "b" ? book.buys_ : book.sells_)[price].push_back(order);
            }
        }
        return book;
    }

  private:
    struct client {
        std::uint64_t number = 0;
        std::string result;
    };
    // Prices in order, and at each the orders in theirs.
    using side = std::map<std::uint64_t, std::deque<order>>;

    // Trades against the best price that crosses, the oldest order first; how much.
    template <typename Crosses> std::uint64_t match(side &other, order &taken, std::uint64_t price, Crosses crosses) {
        std::uint64_t traded = 0;
        while (taken.left > 0 && !other.empty()) {
            auto best = &other == &sells_ ? other.begin() : std::prev(other.end());
            if (!crosses(best->first, price)) {
                break;
            }
            order &oldest = best->second.front();
            std::uint64_t quantity = std::min(taken.left, oldest.left);
            taken.left -= quantity;
            oldest.left -= quantity;
            traded += quantity;
            trades_++;
            volume_ += quantity;
            turnover_ += quantity * best->first;
            if (oldest.left == 0) {
                best->second.pop_front();
                if (best->second.empty()) {
                    other.erase(best);
                }
            }
        }
        return traded;
    }

    std::string cancel(const std::string &client, std::uint64_t number) {
        for (auto *side : {&buys_, &sells_}) {
            for (auto level = side->begin(); level != side->end(); ++level) {
                for (auto at = level->second.begin(); at != level->second.end(); ++at) {
                    if (at->client == client && at->number == number) {
                        std::string result = "ok cancelled-" + std::to_string(at->left);
                        level->second.erase(at);
                        if (level->second.empty()) {
                            side->erase(level);
                        }
                        return result;
                    }
                }
            }
        }
        return "ok cancelled-0";
    }

    side buys_, sells_;
    std::map<std::string, client> clients_;
    std::uint64_t trades_ = 0, volume_ = 0, turnover_ = 0;
};

// The book as a node has it.
class replica : public ringleader::application {
  public:
    void apply(const ringleader::entry &entry) override {
        std::lock_guard guard(mutex_);
        book_.take(std::string(entry.text()));
    }
    void save(ringleader::snapshot &out) override {
        std::lock_guard guard(mutex_);
        out.write(ringleader::as_bytes(book_.save()));
    }
    void load(ringleader::bytes state) override {
        std::string saved(reinterpret_cast<const char *>(state.data()), state.size());
        book loaded = book::load(saved);
        std::lock_guard guard(mutex_);
        book_ = std::move(loaded);
    }

    std::string show() {
        std::lock_guard guard(mutex_);
        return book_.show();
    }
    // What came of a line that was applied.
    std::string answer(const std::string &line) {
        std::lock_guard guard(mutex_);
        return book_.answer(line);
    }

  private:
    std::mutex mutex_;
    book book_;
};

int alone() {
    book book;
    for (std::string line; std::getline(std::cin, line);) {
        book.take(line);
    }
    std::cout << "= " << book::load(book.save()).show() << std::endl;
    return 0;
}

int serve(const char *directory, int id) {
    auto options = ringleader::options();
    options.node = static_cast<std::uint32_t>(id);
    options.members = ringleader::nodes(1, 2, 3);
    options.directory = directory;
    options.ring_len = 1 << 20;
    auto replica = std::make_shared<::replica>();
    auto node = ringleader::node::open(options, replica);
    if (id == 1) {
        node.form(60s);
    }
    auto lane = node.lane();
    auto reader = node.reader();
    std::cout << "process " << getpid() << " has node " << id << std::endl;
    auto may_look = [&] {
        return ringleader::is_ready(reader.read(RINGLEADER_READ_FOLLOWER).value());
    };
    for (std::string line; std::getline(std::cin, line) && line != "q";) {
        if (line == "?") {
            std::cout << (may_look() ? "= " + replica->show() : "? retry") << std::endl;
            continue;
        }
        // In place: the line is written where the agent takes it from.
        auto draft = lane.try_draft(line.size());
        std::memcpy(draft.value().payload().data(), line.data(), line.size());
        draft->commit();
        // Without a bound: the next line's outcome comes behind this one's.
        auto outcome = lane.wait().value();
        if (ringleader::is_committed(outcome) && may_look()) {
            std::cout << line << " " << replica->answer(line) << std::endl;
        } else {
            std::cout << line << " retry " << outcome.leader << std::endl;
        }
    }
    lane.close();
    node.close();
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 2 && std::strcmp(argv[1], "--alone") == 0) {
            return alone();
        }
        if (argc == 3) {
            return serve(argv[1], std::atoi(argv[2]));
        }
        std::cerr << "usage: book DIRECTORY NODE, or book --alone < ORDERS" << std::endl;
        return 2;
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
}
